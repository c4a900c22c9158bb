"""The viewer at home: connects, receives, and shows agents in a window or in lines."""
