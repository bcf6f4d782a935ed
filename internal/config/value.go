package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A setter stores the text of a value in a Config. Its error says why the text is
// wrong, without key and value.
type setter struct {
	set    func(c *Config, text string) error
	number bool // a whole number, which a property may also give in hex
}

// whole reads a number in [least, most]. what names the number in errors: "a whole
// number of milliseconds".
func whole(what string, least, most int64, store func(*Config, int64)) setter {
	return setter{number: true, set: func(c *Config, text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return fmt.Errorf("must be between %d and %d", least, most)
		case err != nil:
			return errors.New("not " + what)
		case n < least && most >= math.MaxInt32:
			return fmt.Errorf("must be %d or more", least)
		case n < least || n > most:
			return fmt.Errorf("must be between %d and %d", least, most)
		}
		store(c, n)
		return nil
	}}
}

// count reads an int of Java that is at least least.
func count(least int64, at func(*Config) *int) setter {
	return whole("a whole number", least, math.MaxInt32, func(c *Config, n int64) { *at(c) = int(n) })
}

// port reads a port number; 0 lets the system choose.
func port(at func(*Config) *int) setter {
	return whole("a port number", 0, math.MaxUint16, func(c *Config, n int64) { *at(c) = int(n) })
}

// millis reads a number of milliseconds that is at least least.
func millis(least int64, at func(*Config) *time.Duration) setter {
	return whole("a whole number of milliseconds", least, math.MaxInt32, func(c *Config, n int64) {
		*at(c) = time.Duration(n) * time.Millisecond
	})
}

// maxKilobytes is the largest number of kilobytes whose bytes fit into an int64.
const maxKilobytes = math.MaxInt64 / 1024

// kilobytes reads a size in units of 1024 bytes; any number <= 0 is allowed.
func kilobytes(at func(*Config) *int64) setter {
	return whole("a whole number of kilobytes", -maxKilobytes, maxKilobytes, func(c *Config, n int64) {
		*at(c) = n * 1024
	})
}

// fraction reads a decimal number in [least, most].
func fraction(least, most float64, at func(*Config) *float64) setter {
	return setter{set: func(c *Config, text string) error {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) {
			return errors.New("not a number")
		}
		if f < least || f > most {
			return fmt.Errorf("must be between %v and %v", least, most)
		}
		*at(c) = f
		return nil
	}}
}

// boolean reads true or false in any case.
func boolean(at func(*Config) *bool) setter {
	return setter{set: func(c *Config, text string) error {
		switch strings.ToLower(text) {
		case "true":
			*at(c) = true
		case "false":
			*at(c) = false
		default:
			return errors.New("not true or false")
		}
		return nil
	}}
}

// yesNo reads yes or no.
func yesNo(at func(*Config) *bool) setter {
	return setter{set: func(c *Config, text string) error {
		switch text {
		case "yes":
			*at(c) = true
		case "no":
			*at(c) = false
		default:
			return errors.New("not yes or no")
		}
		return nil
	}}
}

// words accepts any text.
func words(at func(*Config) *string) setter {
	return setter{set: func(c *Config, text string) error {
		*at(c) = text
		return nil
	}}
}

// filled accepts any text that is not empty.
func filled(at func(*Config) *string) setter {
	return setter{set: func(c *Config, text string) error {
		if text == "" {
			return errors.New("is empty")
		}
		*at(c) = text
		return nil
	}}
}

// commaList splits at commas, trims, and drops empty parts.
func commaList(text string) (list []string) {
	for _, word := range strings.Split(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			list = append(list, word)
		}
	}
	return list
}

// oneOf reads one of the given words.
func oneOf(allowed []string, store func(*Config, string)) setter {
	return setter{set: func(c *Config, text string) error {
		for _, a := range allowed {
			if text == a {
				store(c, text)
				return nil
			}
		}
		return errors.New("not one of " + strings.Join(allowed, ", "))
	}}
}

// The setters of values that are checked and otherwise ignored.

func anyWhole() setter {
	return whole("a whole number", math.MinInt64, math.MaxInt64, func(*Config, int64) {})
}

func anyNumber() setter {
	return setter{set: func(_ *Config, text string) error {
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return errors.New("not a number")
		}
		return nil
	}}
}

func anyBoolean() setter {
	return setter{set: func(c *Config, text string) error {
		var unused bool
		return boolean(func(*Config) *bool { return &unused }).set(c, text)
	}}
}

func anyWords() setter { return setter{set: func(*Config, string) error { return nil }} }

// decimal converts a number as Java's properties may have it (0x or # before hex
// digits) to decimal. It refuses a leading zero: Java reads some properties as octal
// then, and others not.
func decimal(text string) (string, error) {
	digits := strings.TrimLeft(text, "+-")
	sign := text[:len(text)-len(digits)]
	switch {
	case len(sign) > 1:
		return "", errors.New("not a whole number")
	case strings.HasPrefix(digits, "0x"), strings.HasPrefix(digits, "0X"):
		digits = digits[2:]
	case strings.HasPrefix(digits, "#"):
		digits = digits[1:]
	case len(digits) > 1 && digits[0] == '0':
		return "", errors.New("starts with 0, which reads as octal or as decimal")
	default:
		return text, nil
	}
	n, err := strconv.ParseInt(sign+digits, 16, 64)
	if err != nil || digits == "" || digits[0] == '+' || digits[0] == '-' {
		return "", errors.New("not a whole number")
	}
	return strconv.FormatInt(n, 10), nil
}

// hours reads hours, or a number with a unit ms, s, m, h or d, as 3.10 allows.
func hours(at func(*Config) *time.Duration) setter {
	units := []struct {
		suffix string
		unit   time.Duration
	}{{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}}
	return setter{set: func(c *Config, text string) error {
		digits, unit := text, time.Hour
		for _, u := range units {
			if d, ok := strings.CutSuffix(text, u.suffix); ok {
				digits, unit = d, u.unit
				break
			}
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		switch {
		case err != nil:
			return errors.New("not a whole number of hours, nor a number with ms, s, m, h or d")
		case n > int64(math.MaxInt64/unit):
			return errors.New("too long")
		}
		*at(c) = max(0, time.Duration(n)*unit)
		return nil
	}}
}
