from plughost.cli.main import main

main()
