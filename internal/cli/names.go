package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/recipe"
)

// A nodeNames is the value of --names: one of a command's choices.
type nodeNames struct {
	choices []nameChoice
	value   recipe.NodeNames
}

// A nameChoice is a word for --names.
type nameChoice struct {
	word  string
	names recipe.NodeNames
}

// lockNames and electNames are the choices of lock and elect; the first is the default.
func lockNames() nodeNames {
	return nodeNames{choices: []nameChoice{
		{"curator", recipe.CuratorNames}, {"kazoo", recipe.KazooNames}, {"zookeeper", recipe.ZooKeeperNames},
	}}
}

func electNames() nodeNames {
	n := lockNames()
	n.choices = append(n.choices, nameChoice{"selector", recipe.SelectorNames})
	return n
}

// String, Set and Type make it an option.
func (n *nodeNames) String() string {
	return n.word(n.value)
}

// Set reads one of the words.
func (n *nodeNames) Set(text string) error {
	i := slices.IndexFunc(n.choices, func(c nameChoice) bool { return c.word == text })
	if i < 0 {
		return errors.New("must be " + n.Type())
	}
	n.value = n.choices[i].names
	return nil
}

// Type lists the words.
func (n *nodeNames) Type() string {
	var words []string
	for _, c := range n.choices {
		words = append(words, c.word)
	}
	return strings.Join(words, "|")
}

// word is the choice for names; "" if there is none.
func (n *nodeNames) word(names recipe.NodeNames) string {
	for _, c := range n.choices {
		if c.names == names {
			return c.word
		}
	}
	return ""
}

// refused explains a *recipe.NamesError: which znode is in the queue, and the value of
// --names that fits it. Other errors are returned as they are.
func (n *nodeNames) refused(err error) error {
	var other *recipe.NamesError
	if !errors.As(err, &other) {
		return err
	}
	advice := "no --names fits it: use another path"
	for _, names := range other.Names {
		if word := n.word(names); word != "" {
			advice = "use --names " + word + " to share the path with it"
			break
		}
	}
	return fmt.Errorf("refused: the client of %s would not wait for a znode with --names %s, so both could hold the path at once\n(%s)", other.Znode, n, advice)
}
