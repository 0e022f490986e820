"""What strangers reach: TCP, SSH and its logins, and the processes that serve sessions."""
