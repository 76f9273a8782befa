module developeroverview

go 1.19
