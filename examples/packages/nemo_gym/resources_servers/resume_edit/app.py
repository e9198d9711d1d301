"""Entry point of the server, in the file in which NeMo Gym looks for it."""

from resume_gym.integrations.nemo_gym import ResumeGymServer

if __name__ == "__main__":
    ResumeGymServer.run_webserver()
