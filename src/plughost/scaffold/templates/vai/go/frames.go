package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Frames: `Content-Length: n`, CRLF, CRLF, n bytes.

const (
	maxHeader = 8 << 10
	maxBody   = 16 << 20
)

// readFrame gives the body of the next frame; io.EOF when the stream ends between two of them.
func readFrame(in *bufio.Reader) ([]byte, error) {
	header, err := readHeader(in)
	if err != nil {
		return nil, err
	}
	length, found := uint64(0), false
	for _, line := range strings.Split(header, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if strings.EqualFold(strings.TrimSpace(name), "Content-Type") {
			continue // as LSP has it
		}
		length, err = strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(value), "+"), 10, 63)
		if !strings.EqualFold(strings.TrimSpace(name), "Content-Length") || err != nil || found {
			return nil, fmt.Errorf("not a header: %.80q", line)
		}
		found = true
	}
	if !found {
		return nil, errors.New("a header without Content-Length")
	}
	if length > maxBody {
		return nil, fmt.Errorf("a body of %d bytes is over the limit of %d", length, maxBody)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(in, body); err != nil {
		return nil, fmt.Errorf("the stream ended inside a frame of %d bytes", length)
	}
	return body, nil
}

func readHeader(in *bufio.Reader) (string, error) {
	var header []byte
	for !bytes.HasSuffix(header, []byte("\r\n\r\n")) {
		next, err := in.ReadByte()
		if err == io.EOF && len(header) > 0 {
			return "", io.ErrUnexpectedEOF
		}
		if err != nil {
			return "", err
		}
		if header = append(header, next); len(header) > maxHeader {
			return "", fmt.Errorf("a header of more than %d bytes", maxHeader)
		}
	}
	return string(header[:len(header)-4]), nil
}

func writeFrame(out io.Writer, body []byte) error {
	if len(body) > maxBody {
		return fmt.Errorf("a message of %d bytes is over the limit of %d", len(body), maxBody)
	}
	_, err := out.Write(append([]byte(fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body))), body...))
	return err
}
