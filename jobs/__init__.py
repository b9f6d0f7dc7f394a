"""What ran: projects, jobs, attempts and what they used."""
