"""Finds or makes the start state that episodes begin from, and checks it.

find_start_state    finds or makes the state that a setting names
start_routes        routes to start states, as data
route_player        plays a route by rules, with `route_view`
playability_check   checks that an agent can play on from a state
state_files         converts a person's save state or battery save, in a child process
state_file_formats  tells files of emulators apart, and finds the work RAM in a PyBoy state
start_state_folder  a person's folder of states
"""
