//go:build !race

package consumer

const raceDetector = false
