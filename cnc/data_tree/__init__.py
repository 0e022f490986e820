"""The YANG data tree of a switch: names, values, and what a switch reports."""
