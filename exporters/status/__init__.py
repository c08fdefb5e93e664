"""The status page: one page that an on-call person can read in ten seconds, and the same facts for scripts."""
