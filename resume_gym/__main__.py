"""Entry point of `python -m resume_gym`, which runs the command `resume-gym`."""

from resume_gym.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
