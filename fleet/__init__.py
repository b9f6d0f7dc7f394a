"""What we own: the site and its clusters; nodes, holds, faults and power come to live here."""
