"""Start states of episodes, and the check that a player can play on from one.

start_state   finds or makes the state that a setting means
route         ways to start states, as data
route_player  plays a route by rules, with `player_view`
preflight     judges a state, a foreign one in a child process
shelf         a person's folder of states
"""
