"""What each verb of the command does once its words are parsed."""
