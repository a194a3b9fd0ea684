package main

import (
	"encoding/json"
	"sort"
)

const bold = 1

// Screen is a screen's worth of cells; what is painted outside is left out.
type Screen struct {
	Width, Height int
	cells         map[place]cell
}

type place struct {
	X int `json:"x"`
	Y int `json:"y"`
}

type cell struct {
	Symbol   string `json:"symbol"`
	Modifier int    `json:"modifier"`
}

func newScreen(width, height int) *Screen {
	return &Screen{width, height, map[place]cell{}}
}

// Put writes text from a cell on, a character a cell.
func (screen *Screen) Put(x, y int, text string, style int) {
	for _, symbol := range text {
		if 0 <= x && x < screen.Width && 0 <= y && y < screen.Height {
			screen.cells[place{x, y}] = cell{string(symbol), style}
		}
		x++
	}
}

// MarshalJSON lists the cells that are painted, row by row.
func (screen *Screen) MarshalJSON() ([]byte, error) {
	places := make([]place, 0, len(screen.cells))
	for where := range screen.cells {
		places = append(places, where)
	}
	sort.Slice(places, func(a, b int) bool {
		one, other := places[a], places[b]
		return one.Y < other.Y || one.Y == other.Y && one.X < other.X
	})
	cells := make([][2]any, len(places))
	for number, where := range places {
		cells[number] = [2]any{where, screen.cells[where]}
	}
	return json.Marshal(object{"width": screen.Width, "height": screen.Height, "cells": cells})
}
