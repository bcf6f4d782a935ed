module github.com/pinfold-zk/pinfold

go 1.26
