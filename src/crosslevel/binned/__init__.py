"""What curve or surface lies behind bins, boxes and areas?"""
