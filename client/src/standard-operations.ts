// Written by `npm run generate` from the OpenAPI document.

export const standardOperations = {
  users: {
    list: "LIST /api/v1/users",
    create: "POST /api/v1/users",
    get: "GET /api/v1/users/{id}",
    update: "PATCH /api/v1/users/{id}",
    delete: "DELETE /api/v1/users/{id}",
  },
  tasks: {
    list: "LIST /api/v1/tasks",
    create: "POST /api/v1/tasks",
    get: "GET /api/v1/tasks/{id}",
    update: "PATCH /api/v1/tasks/{id}",
    delete: "DELETE /api/v1/tasks/{id}",
  },
  analytics: {
    get: "GET /api/v1/analytics?",
  },
  me: {
    get: "GET /api/v1/me",
  },
  activity: {
    list: "LIST /api/v1/activity",
    get: "GET /api/v1/activity/{id}",
  },
  redeliveries: {
    get: "GET /api/v1/redeliveries/{id}",
  },
  events: {
    list: "LIST /api/v1/events",
    get: "GET /api/v1/events/{id}",
  },
  audit: {
    list: "LIST /api/v1/audit",
  },
} as const;
