//go:build race

package consumer

const raceDetector = true
