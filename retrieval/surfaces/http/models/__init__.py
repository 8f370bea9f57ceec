"""What is sent to the service and what it answers, as OpenAPI describes it: a module for each resource."""
