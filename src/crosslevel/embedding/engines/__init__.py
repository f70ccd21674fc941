"""Where the pass over the people runs: threads of this machine, an accelerator, a cluster."""
