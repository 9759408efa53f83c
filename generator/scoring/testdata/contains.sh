# Judges that an answer is right when it contains the words it was started with.
if grep -q "\"answer\":\"[^\"]*$1"; then
	echo '{"score": 1, "feedback": "It is in there."}'
else
	echo '{"score": 0, "feedback": "It is not in there."}'
fi
