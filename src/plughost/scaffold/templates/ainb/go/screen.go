package main

import (
	"encoding/json"
	"sort"
	"unicode"
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

// Put writes text from a cell on, a character a cell or, when it is a wide one, in two.
func (screen *Screen) Put(x, y int, text string, style int) {
	for _, symbol := range cells(text) {
		if 0 <= x && x < screen.Width && 0 <= y && y < screen.Height {
			screen.cells[place{x, y}] = cell{symbol, style}
		}
		x++
	}
}

// cells are the characters of a text, each with the marks on it, and an empty one behind what is two columns wide.
func cells(text string) []string {
	var found []string
	for _, character := range text {
		last := len(found) - 1
		switch {
		case last >= 0 && (character == joiner || unicode.In(character, unicode.Mn, unicode.Me)):
			if found[last] == "" {
				last--
			}
			found[last] += string(character)
		case unicode.Is(wide, character):
			found = append(found, string(character), "")
		default:
			found = append(found, string(character))
		}
	}
	return found
}

const joiner = '\u200d'

var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x1100, 0x115f, 1}, {0x2e80, 0x303e, 1}, {0x3041, 0xa4cf, 1}, {0xa960, 0xa97c, 1}, {0xac00, 0xd7a3, 1},
		{0xf900, 0xfaff, 1}, {0xfe30, 0xfe6f, 1}, {0xff01, 0xff60, 1}, {0xffe0, 0xffe6, 1},
	},
	R32: []unicode.Range32{
		{0x1f300, 0x1f64f, 1}, {0x1f680, 0x1f6ff, 1}, {0x1f900, 0x1f9ff, 1}, {0x20000, 0x3fffd, 1},
	},
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
