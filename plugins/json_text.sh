# The little JSON that the example plugins in sh need: the text of an object's members. POSIX sh, builtins only.
# It finds where values begin and end and drops white space between their parts; more it does not check.
# A shell copies the rest of the text at each step: this is for messages of some kilobytes.

_blank=$(printf ' \t\r')
_stop="][{},:$_blank" # what ends a number, true, false or null

# members TEXT NAME...: set each variable NAME to the text of that member, or to nothing where there is none.
# Fails when TEXT is no object or its end is missing.
members() {
    _text=$1
    shift
    _names=$*
    for _name; do eval "$_name="; done
    _split_at_quotes || return 1
    [ "$_done" ] && [ -z "$_value" ]
}

# What stands between quotes is by turns outside of strings and inside; a backslash tells that the quote
# after it is part of the string.
_split_at_quotes() {
    _key='' _value='' _depth=0 _done='' _string=''
    _ifs=$IFS IFS='"'
    set -f
    set -- $_text
    set +f
    IFS=$_ifs
    for _part; do
        if [ -z "$_string" ]; then
            _outside || return 1
            _string='"'
        else
            _string=$_string$_part\"
            _escaped || { _value=$_value$_string _string=''; }
        fi
    done
}

# Whether $_part ends with a backslash that is not itself escaped.
_escaped() {
    while [ "$_part" != "${_part%\\\\}" ]; do _part=${_part%\\\\}; done
    case $_part in *\\) ;; *) return 1 ;; esac
}

_outside() {
    while _part=${_part#"${_part%%[!$_blank]*}"} && [ "$_part" ]; do
        case $_depth$_part in
        0\{*) [ -z "$_done" ] && _depth=1 ;;
        0*) return 1 ;;
        1:*) _key=$_value _value='' ;;
        1,*) _keep ;;
        1\}*) _depth=0 _done=yes && { [ -z "$_key$_value" ] || _keep; } ;;
        *) _inside ;;
        esac || return 1
        _part=${_part#?}
    done
}

_inside() {
    case $_part in
    \{*) _value=$_value\{ _depth=$((_depth + 1)) ;;
    \[*) _value=$_value\[ _depth=$((_depth + 1)) ;;
    \}*) _value=$_value\} _depth=$((_depth - 1)) ;;
    \]*) _value=$_value\] _depth=$((_depth - 1)) ;;
    ,*) _value=$_value, ;;
    :*) _value=$_value: ;;
    *)
        _word=${_part%%[$_stop]*}
        _value=$_value$_word _part=-${_part#"$_word"}
        ;;
    esac
}

# A member is complete.
_keep() {
    [ "$_key" ] && [ "$_value" ] || return 1
    for _name in $_names; do
        [ "$_key" != "\"$_name\"" ] || eval "$_name=\$_value"
    done
    _key='' _value=''
}
