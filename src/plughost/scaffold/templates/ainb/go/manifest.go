package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
)

//go:embed manifest.toml
var manifestText string

// readManifest reads manifest.toml, as long as each line is a [section], a comment, or a key and a value that JSON
// writes alike.
func readManifest() (map[string]map[string]any, error) {
	manifest := map[string]map[string]any{}
	var section map[string]any
	for _, line := range strings.Split(manifestText, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, "[") {
			section = map[string]any{}
			manifest[strings.Trim(line, "[]")] = section
			continue
		}
		key, text, _ := strings.Cut(line, "=")
		var value any
		if json.Unmarshal([]byte(text), &value) != nil || section == nil {
			return nil, &Refusal{manifestValidation, fmt.Sprintf("manifest.toml: not a section, or a key and a JSON value: %s", line)}
		}
		section[strings.TrimSpace(key)] = value
	}
	return manifest, nil
}
