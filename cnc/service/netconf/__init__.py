"""The UNI over NETCONF: what `tsn-netconfd --broker SOCKET` asks of its backend;
docs/reference/netconf.md.

The server ends SSH and checks by its libyang what clients send; a process of this package answers
it as the web workers answer RESTCONF, with what they have. It is told by the server who asks: the
name of a token, whose SSH key the server has verified. The core looks at the token with each call.
"""
