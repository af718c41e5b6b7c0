UPDATE job SET suggested = :suggested WHERE id = :id
