"""Environments of a run: the setting `env` names one, or several with their shares."""


def read_shares(text: str) -> dict[str, float]:
    """Parse the setting `env`: an id, or several as ID:SHARE, separated by commas.

    >>> read_shares("ResumeEditMini-v0")
    {'ResumeEditMini-v0': 1.0}
    >>> read_shares("ResumeEditNetMini-v0:3, my_module:Mine-v0:1")
    {'ResumeEditNetMini-v0': 0.75, 'my_module:Mine-v0': 0.25}

    Returns:
        The share of each environment, by id (or module:id); the shares sum to 1.

    Raises:
        ValueError: one of several environments has no share, a share is not a number from 1e-9 to
            1e9, an environment occurs twice, or a single environment has a share.
    """
    parts = [part.strip() for part in text.split(",")]
    shares: dict[str, float] = {}
    for part in parts:
        env, _, number = part.rpartition(":")
        share = _positive(number)
        if len(parts) == 1:
            if share:
                raise ValueError(f"expected a single environment without a share, got {part!r}")
            return {part: 1.0}
        if not (env and share):
            told = (
                "expected ID:SHARE with a share > 0 (at most 1e9) for each of several environments"
            )
            raise ValueError(f"{told}, got {part!r}")
        if _id(env) in map(_id, shares):
            raise ValueError(f"expected each environment once, got {_id(env)!r} twice")
        shares[env] = share
    total = sum(shares.values())
    return {env: share / total for env, share in shares.items()}


def _positive(text: str) -> float:
    """Parse a number from 1e-9 to 1e9; return 0 if the text is not such a number."""
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if 1e-9 <= number <= 1e9 else 0.0  # sums and quotients stay finite and above 0


def _id(env: str) -> str:
    return env.rpartition(":")[2]
