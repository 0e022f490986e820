"""Other protocols' ways to a service: clients of its HTTPS interfaces, each in a folder of its own.

They hold a token and no more: what a token may do, the service decides. None of them is imported by
the service, and none imports another. What each needs beside the controller is an extra of its own.

mcp    a server of the Model Context Protocol, on standard input and output
dds    TSN deployments of DDS systems, from a file and back
opcua  an OPC UA server with the state of the streams
"""
