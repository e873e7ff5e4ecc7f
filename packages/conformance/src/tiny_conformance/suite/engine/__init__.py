"""Level 3: schedules, caches, captured calls and several devices of a kind."""
