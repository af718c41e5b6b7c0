DELETE FROM acknowledgement WHERE topic = :topic
