"""The stubs name what the compiled half has, and nothing else."""

import ast
import unittest
from pathlib import Path

import forebay
from forebay import _forebay


class Stubs(unittest.TestCase):
    def test_the_stubs_are_whole(self):
        folder = Path(forebay.__file__).parent
        self.assertTrue((folder / "py.typed").exists())
        tree = ast.parse((folder / "_forebay.pyi").read_text())
        named = {}
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                named[node.name] = node
            elif isinstance(node, ast.AnnAssign):
                named[node.target.id] = node
        public = {name for name in dir(_forebay) if not name.startswith("_")} | {"__version__"}
        self.assertEqual(set(named), public)
        for name, node in named.items():
            if isinstance(node, ast.ClassDef):
                members = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
                found = {one for one in vars(getattr(_forebay, name)) if not one.startswith("_")}
                self.assertEqual({one for one in members if not one.startswith("_")}, found, name)

    def test_everything_that_is_named_is_there(self):
        for name in forebay.__all__:
            self.assertTrue(hasattr(forebay, name), name)


if __name__ == "__main__":
    unittest.main()
