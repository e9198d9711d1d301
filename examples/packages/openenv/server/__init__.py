"""Server of the OpenEnv environment."""
