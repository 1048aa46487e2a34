package main

import (
	"errors"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
)

func TestSaveRefusesAnOldFence(t *testing.T) {
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, step := range []struct {
		fence int64
		want  error
	}{{0, nil}, {7, nil}, {7, nil}, {0, errOldFence}, {6, errOldFence}, {8, nil}} {
		if err := save(db, "order 17", []byte("text"), step.fence); !errors.Is(err, step.want) {
			t.Errorf("fence %d: %v, want %v", step.fence, err, step.want)
		}
	}
}
