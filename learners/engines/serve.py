"""vLLM's server, as a process that ends when the one that started it is gone.

python -m learners.engines.serve PARENT [vLLM's own flags]
"""

import runpy
import sys

from learners.ranks import die_with_parent

SERVER = "vllm.entrypoints.launchers.api_server.entry"

if __name__ == "__main__":
    die_with_parent(int(sys.argv.pop(1)))
    runpy.run_module(SERVER, run_name="__main__", alter_sys=True)
