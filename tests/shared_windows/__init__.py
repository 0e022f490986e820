"""What windows that frames share must carry: networks, and a table of what a planner places."""
