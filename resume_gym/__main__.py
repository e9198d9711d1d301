"""Entry point of `python -m resume_gym`, which runs the command `resume-gym`."""

from resume_gym.cli import main
from resume_gym.trust import leave_current_folder

if __name__ == "__main__":
    leave_current_folder()
    raise SystemExit(main())
