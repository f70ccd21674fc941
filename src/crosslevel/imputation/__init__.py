"""What was each person's hidden value, when only group means were published?"""
