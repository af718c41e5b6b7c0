// A link from another site comes without the cookie (SameSite=Strict): if this browser is logged in, look again from here.

const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
if (answer.ok) location.reload();
