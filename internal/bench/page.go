package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// The part of a page that is written by a command lies between two comments,
// which a reader of the page does not see.
func sectionMarks(name string) (begin, end string) {
	return "<!-- begin measured: " + name + " -->\n", "<!-- end measured: " + name + " -->\n"
}

// writeSection puts body into the section of the page, and leaves everything
// else of it as it is. A page without the section gets it at its end, under the
// title; a file that does not exist is made.
func writeSection(file, name, title, body string) error {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("bench: %w", err)
	}
	page, err := replaceSection(string(old), name, title, body)
	if err != nil {
		return fmt.Errorf("bench: %s: %w", file, err)
	}
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

func replaceSection(page, name, title, body string) (string, error) {
	begin, end := sectionMarks(name)
	section := begin + strings.TrimSuffix(body, "\n") + "\n" + end
	before, rest, found := strings.Cut(page, begin)
	if !found {
		if page == "" {
			page = "# Measured\n"
		}
		return page + "\n## " + title + "\n\n" + section, nil
	}
	_, after, found := strings.Cut(rest, end)
	if !found {
		return "", fmt.Errorf("the section %q has no end", name)
	}
	return before + section + after, nil
}
