package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// The two ways calls are measured. benchmarks/timing.py has the same.

const least = 10

func oneAtATime(call func(), seconds float64) []float64 {
	call()
	times := []float64{}
	end := time.Now().Add(duration(seconds))
	for began := time.Now(); began.Before(end) || len(times) < least; {
		began = time.Now()
		call()
		times = append(times, time.Since(began).Seconds())
	}
	return times
}

func inFlight(call func(), width int, seconds float64) float64 {
	var answered atomic.Int64
	var callers sync.WaitGroup
	began := time.Now()
	end := began.Add(duration(seconds))
	for range width {
		callers.Go(func() {
			for time.Now().Before(end) {
				call()
				answered.Add(1)
			}
		})
	}
	callers.Wait()
	return float64(answered.Load()) / time.Since(began).Seconds()
}

func duration(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second))
}
