"""Two switches in a line, as a Mininet topology: the cable between them is slow and long.

  h1 ─┐             ┌─ h3
      s1 ───────── s2
  h2 ─┘             └─ h4

mn --custom schedules/mininet-line.py --topo line --link tc     in Mininet
cnc lab up schedules/mininet-line.py                            the same here
cnc lab import schedules/mininet-line.py -o line.yaml           as an intent, to add streams to
"""

from mininet.topo import Topo


class LineTopo(Topo):
    """Switches in a line, each with some hosts."""

    def build(self, switches: int = 2, hosts: int = 2) -> None:
        """`switches`: how many; `hosts`: how many on each."""
        number = 0
        for place in range(1, switches + 1):
            switch = self.addSwitch(f"s{place}")
            for _ in range(hosts):
                number += 1
                self.addLink(self.addHost(f"h{number}"), switch, bw=100)
            if place > 1:
                self.addLink(f"s{place - 1}", switch, bw=10, delay="2ms")


topos = {"line": LineTopo}
