"""Real sample data, laid out as a user's bucket would be: the flights that left New York City in 2013."""
