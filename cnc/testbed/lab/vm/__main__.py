"""`python -m cnc.testbed.lab.vm`: what scripts/vm is in a checkout."""

from cnc.testbed.lab.vm.runner import run

if __name__ == "__main__":
    run()
