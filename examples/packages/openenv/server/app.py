"""OpenEnv server that runs in the Docker image and in the Hugging Face Space.

Environment variables: RESUME_GYM_ENV, the environment's id; RESUME_GYM_ARGS, its arguments as a
JSON object, such as {"judge": "gemini"}; MAX_CONCURRENT_ENVS, maximum number of episodes at once.
"""

import argparse
import json
import os

import uvicorn

from resume_gym.integrations.openenv import make_app

app = make_app(
    os.environ.get("RESUME_GYM_ENV", "ResumeEdit-v0"),
    int(os.environ.get("MAX_CONCURRENT_ENVS", "256")),
    **json.loads(os.environ.get("RESUME_GYM_ARGS", "{}")),
)


def main() -> None:
    """Serve the environment until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 for a free one")
    args = parser.parse_args()
    # without this timeout, an episode that waits for its judge would keep the server from stopping
    uvicorn.run(app, host=args.host, port=args.port, timeout_graceful_shutdown=5)


if __name__ == "__main__":
    main()
