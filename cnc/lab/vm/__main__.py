"""`python -m cnc.lab.vm`: what scripts/vm is in a checkout."""

from cnc.lab.vm.runner import run

if __name__ == "__main__":
    run()
