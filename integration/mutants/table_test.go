package main

import (
	"path/filepath"
	"testing"
)

// TestMutantsApply: what each breaks is there, once. Whether it is caught is for the program to say.
func TestMutantsApply(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	b := builder{root: root, dir: t.TempDir()}
	for i, m := range mutants {
		if _, err := b.overlay(i, m); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}
