export const QueryWithAssistantButton = () => null;
