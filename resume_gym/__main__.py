"""`python -m resume_gym` is `resume-gym`."""

from resume_gym.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
