"""Run commands on another kernel over a stream of octets: a console, or a TCP connection."""
