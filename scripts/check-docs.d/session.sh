# session.sh DIRECTORY: run DIRECTORY/*.step one after the other in one shell, so that `cd`, `export` and
# files of one are there for the next. Leaves N.begun, N.out (both streams) and N.code for each N.step.
directory=$1
set --
trap 'kill $(jobs -p) 2>/dev/null' EXIT
for step in "$directory"/*.step; do
    : >"${step%.step}.begun"
    # shellcheck disable=SC1090
    . "$step" >"${step%.step}.out" 2>&1 </dev/null
    echo $? >"${step%.step}.code"
done
