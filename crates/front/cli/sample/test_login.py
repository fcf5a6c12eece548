import unittest

from login import sign_in


class SignIn(unittest.TestCase):
    def test_wrong_password(self):
        users = {"kim": {"salt": "s", "digest": "no digest of anything"}}
        with self.assertRaises(PermissionError):
            sign_in(users, "kim", "guess")
